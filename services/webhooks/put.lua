-- Joined behind common.lua: see deliveries.ts.
-- KEYS: delivery. Arguments: delivery, tenant, job, type, receiver, traceparent or ''. Adds a
-- delivery that is due immediately, unless it exists.
if redis.call('EXISTS', KEYS[1]) == 1 then
  return 'known'
end
redis.call('HSET', KEYS[1], 'tenant', args.tenant, 'job', args.job, 'type', args.type,
  'receiver', args.receiver, 'attempts', '0', 'once', '')
if args.traceparent ~= '' then
  redis.call('HSET', KEYS[1], 'trace', args.traceparent)
end
enqueue(args.delivery, args.receiver, now_ms())
return 'new'
