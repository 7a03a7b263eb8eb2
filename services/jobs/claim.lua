-- Binds an idempotency key to a job id.
-- KEYS: wallet, job, data key, idempotency keys of even days and of odd days.
-- ARGV: job, idempotency key or '', fingerprint, accept within ms, 1 for a quote (its claim never
-- becomes a job) or 0, id of the claiming process or '', id of the API key or '', wrapped data key
-- of the job.
local guard = guard_of(KEYS[1])
if guard.locked then
  return guard.locked
end
local job, key, fingerprint = ARGV[1], ARGV[2], ARGV[3]
local now = now_ms()
local accept_by = text(now + whole_number(ARGV[4], 'the time to accept within, in ms'))
local idempotency_keys = { KEYS[4], KEYS[5] }

-- The answer for a key that is bound already; nil if this claim takes it over.
local function answer_of(binding)
  local other = bound_job(binding)
  -- Job keys of one tenant differ only in the job id.
  local record = KEYS[2]:sub(1, -#job - 1) .. other
  local held = redis.call('HMGET', record, 'acceptBy', 'claimedAt', 'owner', 'status')
  if other == job and held[1] then
    -- A repetition of this call, whose reply was lost.
    return { 'new', held[2], held[1] }
  end
  -- The record of a claim outlives the binding; the record of an accepted job expires before it.
  local accepted = held[4] or not held[1]
  if accepted or now < tonumber(held[1]) then
    if bound_request(binding) ~= request_of(other, fingerprint) then
      return { 'reused' }
    end
    return { 'same', other, held[1] or '0', not accepted and held[3] or '' }
  end
  -- Refused even if the server's clock steps back: the earlier claim never becomes a job.
  redis.call('HSET', record, 'refusal', 'expired')
end

if key ~= '' then
  local request = request_of(job, fingerprint)
  local binding = bind(idempotency_keys, key, request, now)
  local answer = binding and answer_of(binding)
  if answer then
    return answer
  end
  if binding then
    rebind(idempotency_keys, key, request, now)
  end
end
redis.call('HSET', KEYS[2], 'acceptBy', accept_by, 'claimedAt', text(now),
  'idempotencyKey', key, 'fingerprint', fingerprint, 'owner', ARGV[6],
  'quoteOnly', ARGV[5], 'claimedIn', guard.run, 'apiKey', ARGV[7])
redis.call('PEXPIREAT', KEYS[2], text(now + IDEMPOTENCY_KEY_TTL_MS + REFUSAL_TTL_MS))
redis.call('SET', KEYS[3], ARGV[8], 'NX', 'PX', text(CLAIMED_KEY_TTL_MS))
return { 'new', text(now), accept_by }
