-- KEYS: wallet, job. Returns the record of a claim or job. It may be empty only behind the recovery
-- guard: a Redis that has lost its data has no record of any job.
local gate = gate_of(KEYS[1])
if gate.shut then
  return gate.shut
end
return reply('known', {}, record_of(KEYS[2]))
