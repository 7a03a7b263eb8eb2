-- Joined behind party.lua: see memory.ts.
-- Takes a session and up to `wanted` recipients for it.
-- KEYS: party. ARGV: the JSON of session, wanted, sessions, startsAMinute, first, least, most and
-- leaseMs. Returns `granted` and the recipients, or why not, the milliseconds to wait and, of a
-- party that rests, the ending of the session that it rests for.
local key = KEYS[1]
local party = read_party(key)
if party.rest > now then
  return { 'resting', party.rest - now, party.ending }
end
if party.count >= number_of('sessions') then
  return { 'sessions', math.min(party.earliest - now, 1000) }
end
if party.starts < 1 then
  return { 'rate', wait_for(party.starts, number_of('startsAMinute')) }
end
if party.tokens < 1 then
  return { 'rate', wait_for(party.tokens, party.rate) }
end
local taken = take(party, number_of('wanted'))
party.starts = party.starts - 1
write_party(key, party)
redis.call('HSET', key, 's:' .. args.session, string.format('%.0f', now + number_of('leaseMs')))
return { 'granted', taken }
