-- KEYS: wallet, job. A job becomes `verifying` with its first live check.
local found = redis.call('HMGET', KEYS[2], 'status', 'ended', 'claimedIn')
local status, ended, claimed_in = unpack(found)
local shut = shut_for({ status = status, claimedIn = claimed_in }, KEYS[1])
if shut then
  return shut
end
if (status == 'queued' or status == 'preparing') and ended ~= '1' then
  redis.call('HSET', KEYS[2], 'status', 'verifying', 'updatedAtMs', text(now_ms()))
end
return { 'begun' }
