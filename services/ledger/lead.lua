-- Joined behind money/recovery-guard.lua and money/wallet.lua: see recovery-store.ts.
-- KEYS: leader, fence. ARGV: own name, lease ms, highest fencing token that a wallet has of another
-- leader. Acquires or renews the lease of the leader.
-- Returns the fencing token, which grows with every change of the leader, or 0 if another ledger
-- leads; and the run id of the server.
local name, fence = string.match(redis.call('GET', KEYS[1]) or '', '^(.*) (%d+)$')
if name and name ~= ARGV[1] then
  return { '0', run_id() }
end
local seen = tonumber(ARGV[3])
if not name or tonumber(fence) < seen then
  -- At least the time in ms, so that it grows even after a loss of all data; and above what wallets
  -- on other servers have, whose clocks may be ahead.
  local last = math.max(seen, tonumber(redis.call('GET', KEYS[2]) or '0'))
  fence = string.format('%.0f', math.max(now_ms(), last + 1))
  redis.call('SET', KEYS[2], fence)
end
redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. fence, 'PX', ARGV[2])
return { fence, run_id() }
