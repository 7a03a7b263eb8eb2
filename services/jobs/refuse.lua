-- KEYS: wallet, job, idem. ARGV: job, code (expired or internal).
-- After it no job can come of the claim, unless one already has.
local gate = gate_of(KEYS[1])
if gate.shut then
  return gate.shut
end
local keys = { wallet = KEYS[1], job = KEYS[2], idem = KEYS[3] }
local job, code = ARGV[1], ARGV[2]

local stored, claim = stored_outcome(keys)
if stored then
  return stored
end
-- A claim that is forgotten has passed its acceptBy long ago.
local accept_by = tonumber(claim.acceptBy or '0')
if code == 'expired' and now_ms() < accept_by then
  return { 'open' }
end
-- The journal of a frozen wallet may have an earlier try of the same request behind its gap, so no
-- refusal is definite: a client that has an idempotency key asks again.
local told = gate.frozen and 'frozen' or code
return refuse_job(keys, claim, { job = job, code = told, accept_by = accept_by })
