-- KEYS: wallet, job, idem. ARGV: job, idempotency key or '', fingerprint, accept within ms, 1 for a
-- request that wants to know its price and no more: no job ever comes of its claim; the process
-- that claims, or ''.
local gate = gate_of(KEYS[1])
if gate.shut then
  return gate.shut
end
local job, has_key, fingerprint = ARGV[1], ARGV[2] ~= '', ARGV[3]
local now = now_ms()
local accept_by = text(now + whole(ARGV[4], 'the time to accept within'))
local bound_until = text(now + KEY_BOUND_MS)
local own = binding_of(job, fingerprint)

-- What is said of a key that was bound before; nothing of one that was free, or is taken over.
local function said_of(binding)
  local other = job_of(binding)
  -- The keys of all jobs of a tenant differ in the job alone.
  local record = KEYS[2]:sub(1, -#job - 1) .. other
  local held = redis.call('HMGET', record, 'acceptBy', 'claimedAt', 'owner', 'status')
  if other == job and held[1] then
    -- The reply to this very call was lost on its way.
    return { 'new', held[2], held[1] }
  end
  -- The record of a claim outlives its binding, and that of an accepted job goes long before it.
  local accepted = held[4] or not held[1]
  if accepted or now < tonumber(held[1]) then
    if binding ~= binding_of(other, fingerprint) then
      return { 'reused' }
    end
    return { 'same', other, held[1] or '0', not accepted and held[3] or '' }
  end
  -- Whatever the clock of the server does: no job comes of the claim before.
  redis.call('HSET', record, 'refusal', 'expired')
  redis.call('SET', KEYS[3], own, 'PXAT', bound_until)
end

if has_key then
  local binding = redis.call('SET', KEYS[3], own, 'NX', 'GET', 'PXAT', bound_until)
  local said = binding and said_of(binding)
  if said then
    return said
  end
end
redis.call('HSET', KEYS[2], 'acceptBy', accept_by, 'claimedAt', text(now),
  'idempotencyKey', ARGV[2], 'fingerprint', fingerprint, 'owner', ARGV[6],
  'quoteOnly', ARGV[5], 'claimedIn', gate.run)
redis.call('PEXPIREAT', KEYS[2], text(tonumber(bound_until) + REFUSAL_KEPT_MS))
return { 'new', text(now), accept_by }
