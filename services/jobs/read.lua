-- KEYS: wallet, job. What is known of a claim or job. That nothing is known is said only behind the
-- gate: a Redis that has lost its jobs would say so of all of them.
local gate = gate_of(KEYS[1])
if gate.shut then
  return gate.shut
end
return reply('known', {}, record_of(KEYS[2]))
