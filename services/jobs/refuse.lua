-- A script of jobs: jobScript in store.ts says what it is joined behind.
-- KEYS: wallet, job, data key, idempotency keys of even days and of odd days.
-- ARGV: job, code (expired or internal).
-- Refuses a claim, unless it has become a job already.
local guard = read_guard()
if guard.locked then
  return guard.locked
end
local keys = { job = KEYS[2], data_key = KEYS[3], idempotency = { KEYS[4], KEYS[5] } }
local job, code = ARGV[1], ARGV[2]

local stored, claim = stored_outcome(keys)
if stored then
  return stored
end
-- An expired record means that acceptBy has passed long ago.
local accept_by = tonumber(claim.acceptBy or '0')
if code == 'expired' and now_ms() < accept_by then
  return { 'open' }
end
-- The missing journal entries of a frozen wallet may belong to an earlier attempt of this request,
-- so no refusal is final: a client repeats the request with its idempotency key.
local reported_code = guard.frozen and 'frozen' or code
return refuse_job(keys, claim, { job = job, code = reported_code, accept_by = accept_by })
