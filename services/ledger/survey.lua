-- KEYS: gate, wallet, outbox, open. ARGV: fence.
-- A tenant as it stands, if nothing of it can move. From here on no earlier ledger touches it.
local gate = redis.call('HMGET', KEYS[1], 'run', 'fence', 'trust')
local run = run_id()
if gate[1] == run then
  return { 'blessed' }
end
if tonumber(gate[2] or '0') > tonumber(ARGV[1]) then
  return { 'fenced' }
end
redis.call('HSET', KEYS[1], 'fence', ARGV[1])
local wallet = redis.call('HMGET', KEYS[2], 'seq', 'available', 'reserved', 'charged', 'funded')
for at = 1, 5 do
  wallet[at] = wallet[at] or '0'
end
return {
  'waiting', run, gate[3] or '', wallet, redis.call('HVALS', KEYS[3]),
  redis.call('ZRANGE', KEYS[4], 0, -1),
}
