-- Joined behind party.lua: see memory.ts.
-- More recipients for a session, whose lease is renewed.
-- KEYS: party. ARGV: as of begin.lua. Returns the recipients, and the milliseconds until there is
-- one; -1 recipients for a session without a lease, which must end, as must all at a resting party.
local key = KEYS[1]
local party = read_party(key)
if not party.sessions[args.session] or party.rest > now then
  return { -1, 0 }
end
local taken = take(party, number_of('wanted'))
write_party(key, party)
redis.call('HSET', key, 's:' .. args.session, string.format('%.0f', now + number_of('leaseMs')))
return { taken, wait_for(party.tokens, party.rate) }
