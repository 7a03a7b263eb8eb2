-- A script of jobs: jobScript in store.ts says what it is joined behind.
-- Binds an idempotency key to a job id.
-- KEYS: wallet, job, data key, idempotency keys of even days and of odd days.
-- ARGV: the JSON of job, idempotencyKey or '', fingerprint, otherFingerprints (by other message
-- keys), acceptWithinMs, quoteOnly (1 for a quote, whose claim never becomes a job, or 0), owner (id
-- of the claiming process) or '', apiKey (its id) or '', endWithinMs (of a job with a deadline); the
-- wrapped data key of the job.
local args, wrapped_key = cjson.decode(ARGV[1]), ARGV[2]
local guard = read_guard()
if guard.locked then
  return guard.locked
end
local job, key, fingerprint = args.job, args.idempotencyKey, args.fingerprint
local now = now_ms()
local accept_by = text(now + whole_number(args.acceptWithinMs, 'the time to accept within, in ms'))
local idempotency_keys = { KEYS[4], KEYS[5] }

-- Whether a binding is of this request, by whichever message key its fingerprint is.
local function is_of_request(binding, other)
  local bound = bound_request(binding)
  for _, otherFingerprint in ipairs(args.otherFingerprints or {}) do
    if bound == request_of(other, otherFingerprint) then
      return true
    end
  end
  return bound == request_of(other, fingerprint)
end

-- The answer for a key that is bound already; nil if this claim takes it over.
local function answer_of(binding)
  local other = bound_job(binding)
  -- Keys of a job differ from those of another one of the tenant only in the id.
  local record = KEYS[2]:sub(1, -#job - 1) .. other
  local held = redis.call('HMGET', record, 'acceptBy', 'claimedAt', 'owner', 'status')
  if other == job and held[1] then
    -- A repetition of this call, whose reply was lost.
    return { 'new', held[2], held[1] }
  end
  -- The record of a claim outlives the binding; the record of an accepted job expires before it.
  local accepted = held[4] or not held[1]
  if accepted or now < tonumber(held[1]) then
    if not is_of_request(binding, other) then
      return { 'reused' }
    end
    return { 'same', other, held[1] or '0', not accepted and held[3] or '' }
  end
  -- Refused even if the server's clock steps back: the earlier claim never becomes a job.
  redis.call('HSET', record, 'refusal', 'expired')
  redis.call('DEL', KEYS[3]:sub(1, -#job - 1) .. other)
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
  'idempotencyKey', key, 'fingerprint', fingerprint, 'owner', args.owner,
  'quoteOnly', args.quoteOnly, 'claimedIn', guard.run, 'apiKey', args.apiKey)
if args.endWithinMs then
  local deadline = now + whole_number(args.endWithinMs, 'the time to end within, in ms')
  redis.call('HSET', KEYS[2], 'deadlineMs', text(deadline))
end
redis.call('PEXPIREAT', KEYS[2], text(now + IDEMPOTENCY_KEY_TTL_MS + REFUSAL_TTL_MS))
redis.call('SET', KEYS[3], wrapped_key, 'NX', 'PX', text(CLAIMED_KEY_TTL_MS))
return { 'new', text(now), accept_by }
