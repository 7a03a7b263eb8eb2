-- Joined behind retention.lua: see store.ts.
-- KEYS: job, what waits of it. ARGV: the number of a verification batch, and the JSON of its rows
-- that wait, or '' for none. A job that has ended, or that is not restored yet, has no such rows.
-- The field `pace` of the job has two times, in ms, each with the number of its rows that had an
-- answer by then: the first is five to ten minutes ago, once the job has had waiting rows so long.
local PACE_MS = 300000
local status, ended, fresh, unknown, pace = unpack(redis.call('HMGET', KEYS[1],
  'status', 'ended', 'freshRecords', 'unknownRecords', 'pace'))
if not status or ended == '1' then
  redis.call('UNLINK', KEYS[2])
elseif ARGV[2] == '' then
  redis.call('HDEL', KEYS[2], ARGV[1])
else
  redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
  redis.call('PEXPIRE', KEYS[2], string.format('%.0f', WAITING_TTL_MS))
  local time = redis.call('TIME')
  local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
  local last, last_ms = string.match(pace or '', '((%d+) %d+)$')
  if not last or math.abs(now - tonumber(last_ms)) >= PACE_MS then
    local latest = string.format('%.0f %.0f', now, tonumber(fresh) + tonumber(unknown))
    redis.call('HSET', KEYS[1], 'pace', (last or latest) .. ' ' .. latest)
  end
end
return ''
