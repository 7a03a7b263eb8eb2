-- KEYS: job, what waits of it. ARGV: the number of a verification batch, and the JSON of its rows
-- that wait, or '' for none. A job that has ended, or that is not restored yet, has no such rows.
local status, ended = unpack(redis.call('HMGET', KEYS[1], 'status', 'ended'))
if not status or ended == '1' then
  redis.call('UNLINK', KEYS[2])
elseif ARGV[2] == '' then
  redis.call('HDEL', KEYS[2], ARGV[1])
else
  redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
  redis.call('PEXPIRE', KEYS[2], string.format('%.0f', WAITING_TTL_MS))
end
return ''
