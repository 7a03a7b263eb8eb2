-- KEYS: wallet, job. Sets the job to `verifying` before its first live check.
local shut, status, ended = guarded_fields(KEYS[1], KEYS[2], 'ended')
if shut then
  return shut
end
if (status == 'queued' or status == 'preparing') and ended ~= '1' then
  redis.call('HSET', KEYS[2], 'status', 'verifying', 'updatedAtMs', text(now_ms()))
end
return { 'begun' }
