-- KEYS: leader, fence. ARGV: own name, lease ms. The fence of the leader: a number that grows with
-- every change of it, so that one that was asleep is told from the one that followed; 0 when
-- another leads. With it the run of the server.
local held = redis.call('GET', KEYS[1])
if not held then
  -- By the time, so that it grows even where everything was lost, and shows that it was.
  local fence = math.max(now_ms(), tonumber(redis.call('GET', KEYS[2]) or '0') + 1)
  redis.call('SET', KEYS[2], string.format('%.0f', fence))
  held = ARGV[1] .. ' ' .. string.format('%.0f', fence)
end
local name, fence = string.match(held, '^(.*) (%d+)$')
if name ~= ARGV[1] then
  return { '0', run_id() }
end
redis.call('SET', KEYS[1], held, 'PX', ARGV[2])
return { fence, run_id() }
