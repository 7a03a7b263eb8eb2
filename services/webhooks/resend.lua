-- Joined behind common.lua: see deliveries.ts.
-- KEYS: delivery. Arguments: delivery, tenant, job, type, receiver, attempts (their number
-- in the history).
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
local attempts = math.max(tonumber(found[2] or '0'), tonumber(args.attempts))
redis.call('HSET', KEYS[1], 'tenant', args.tenant, 'job', args.job, 'type', args.type,
  'receiver', args.receiver, 'attempts', text(attempts), 'once', once)
redis.call('PERSIST', KEYS[1])
enqueue(args.delivery, args.receiver, now_ms())
return 'queued'
