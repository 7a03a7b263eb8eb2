-- KEYS: delivery. ARGV: event, tenant, job, type, receiver, traceparent or ''. Adds a delivery that
-- is due immediately, unless it exists.
if redis.call('EXISTS', KEYS[1]) == 1 then
  return 'known'
end
redis.call('HSET', KEYS[1], 'tenant', ARGV[2], 'job', ARGV[3], 'type', ARGV[4],
  'receiver', ARGV[5], 'attempts', '0', 'once', '')
if ARGV[6] ~= '' then
  redis.call('HSET', KEYS[1], 'trace', ARGV[6])
end
enqueue(ARGV[1], ARGV[5], now_ms())
return 'new'
