-- KEYS: delivery. ARGV: event, tenant, job, type, receiver, number of attempts in the history.
-- Makes a delivery due immediately. A waiting delivery keeps its retries; one that has ended, or
-- whose record has expired, is attempted once.
local found = redis.call('HMGET', KEYS[1], 'state', 'attempts', 'once')
if found[1] == 'trying' then
  return 'trying'
end
local once = '1'
if found[1] == 'waiting' then
  once = found[3]
end
local attempts = math.max(tonumber(found[2] or '0'), tonumber(ARGV[6]))
redis.call('HSET', KEYS[1], 'tenant', ARGV[2], 'job', ARGV[3], 'type', ARGV[4],
  'receiver', ARGV[5], 'attempts', text(attempts), 'once', once)
redis.call('PERSIST', KEYS[1])
enqueue(ARGV[1], ARGV[5], now_ms())
return 'queued'
