-- KEYS: wallet, job. ARGV: job. Marks the job as produced completely, and notifies the request
-- that waits for it.
local shut, status, announced = guarded_fields(KEYS[1], KEYS[2], 'announced')
if shut then
  return shut
end
if not status then
  return { 'unknown' }
end
if status == 'queued' then
  redis.call('HSET', KEYS[2], 'announced', '1', 'status', 'preparing',
    'updatedAtMs', text(now_ms()))
elseif announced ~= '1' then
  redis.call('HSET', KEYS[2], 'announced', '1')
end
redis.call('PUBLISH', OUTCOMES, ARGV[1])
return { 'announced' }
