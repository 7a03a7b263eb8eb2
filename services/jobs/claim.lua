-- KEYS: job, idem, gate. ARGV: job, idempotency key or '', fingerprint, accept within ms, 1 for a
-- request that wants to know its price and no more: no job ever comes of its claim; the process
-- that claims, or ''.
local gate = gate_of(KEYS[3])
if gate.shut then
  return gate.shut
end
local job, has_key, fingerprint = ARGV[1], ARGV[2] ~= '', ARGV[3]
local now = now_ms()
local accept_by = text(now + whole(ARGV[4], 'the time to accept within'))

if has_key then
  local other, binding = bound_job(KEYS[2])
  -- The keys of all jobs of a tenant differ in the job alone.
  local record = other and KEYS[1]:sub(1, -#job - 1) .. other
  local held = other and redis.call('HMGET', record, 'acceptBy', 'claimedAt', 'owner', 'status')
  if other == job and held[1] then
    -- The reply to this very call was lost on its way.
    return { 'new', held[2], held[1] }
  end
  -- The record of a claim goes with its binding, and that of an accepted job long after it ended.
  local accepted = held and (held[4] or not held[1])
  local live = other and (accepted or now < tonumber(held[1]))
  if live and binding ~= binding_of(other, fingerprint) then
    return { 'reused' }
  end
  if live then
    return { 'same', other, held[1] or '0', not accepted and held[3] or '' }
  end
end

local forgotten_at = text(tonumber(accept_by) + REFUSAL_KEPT_MS)
if has_key then
  redis.call('SET', KEYS[2], binding_of(job, fingerprint), 'PXAT', forgotten_at)
end
redis.call('HSET', KEYS[1], 'acceptBy', accept_by, 'claimedAt', text(now),
  'idempotencyKey', ARGV[2], 'fingerprint', fingerprint, 'owner', ARGV[6],
  'quoteOnly', ARGV[5], 'claimedIn', gate.run)
redis.call('PEXPIREAT', KEYS[1], forgotten_at)
return { 'new', text(now), accept_by }
