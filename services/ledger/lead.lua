-- KEYS: leader, fence. ARGV: own name, lease ms. Acquires or renews the lease of the leader.
-- Returns the fencing token, which grows with every change of the leader, or 0 if another ledger
-- leads; and the run id of the server.
local current = redis.call('GET', KEYS[1])
if not current then
  -- At least the time in ms, so that it grows even after a loss of all data.
  local fence = math.max(now_ms(), tonumber(redis.call('GET', KEYS[2]) or '0') + 1)
  redis.call('SET', KEYS[2], string.format('%.0f', fence))
  current = ARGV[1] .. ' ' .. string.format('%.0f', fence)
end
local name, fence = string.match(current, '^(.*) (%d+)$')
if name ~= ARGV[1] then
  return { '0', run_id() }
end
redis.call('SET', KEYS[1], current, 'PX', ARGV[2])
return { fence, run_id() }
