-- KEYS: job, idem, outbox, gate. ARGV: job, code (expired or internal).
-- After it no job can come of the claim, unless one already has.
local gate = gate_of(KEYS[4])
if gate.shut then
  return gate.shut
end
local keys = { job = KEYS[1], idem = KEYS[2] }
local job, code = ARGV[1], ARGV[2]

local stored, claim = stored_outcome(keys.job, KEYS[3])
if stored then
  return stored
end
-- A claim that is forgotten has passed its acceptBy long ago.
local now = now_ms()
local accept_by = tonumber(claim.acceptBy or text(now))
if code == 'expired' and now < accept_by then
  return { 'open' }
end
-- Of a frozen wallet nobody knows what its journal has behind a gap: an earlier try of the same
-- request, perhaps.
local told = gate.frozen and code == 'expired' and 'frozen' or code
return refuse_job(keys, { job = job, code = told, accept_by = accept_by })
