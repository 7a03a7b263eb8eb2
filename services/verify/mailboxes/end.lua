-- Ends a session: returns the recipients that were not asked, adapts the rate and counts replies.
-- The rate grows by a twentieth of the maximum for 100 replies, and is halved by a reply that says
-- it is too high; every further block in a row rests twice as long.
-- KEYS: party. ARGV: the JSON of what begin.lua gets, and unused, asked, verdicts, blocked, ending,
-- restMs and maxRestMs.
local key = KEYS[1]
local party = read_party(key)
local is_known = party.sessions[args.session]
redis.call('HDEL', key, 's:' .. args.session)
if is_known then
  party.tokens = math.min(capacity_of(party.rate), party.tokens + number_of('unused'))
end
local most, least = number_of('most'), number_of('least')
-- Sessions at the same time end for the same cause, which counts once.
local is_resting = party.rest > now
if args.ending == 'limited' then
  if not is_resting then
    party.ending = args.ending
    party.rate = math.max(least, party.rate / 2)
  end
  party.rest = math.max(party.rest, now + number_of('restMs'))
elseif args.ending == 'blocked' and not (is_resting and party.ending == 'blocked') then
  party.ending = args.ending
  party.rate = math.max(least, party.rate / 2)
  local rest = math.min(number_of('restMs') * 2 ^ party.blocks, number_of('maxRestMs'))
  party.rest = math.max(party.rest, now + rest)
  party.blocks = party.blocks + 1
elseif args.ending ~= 'blocked' then
  party.rate = math.min(most, party.rate + most * number_of('asked') / 2000)
  if number_of('verdicts') > 0 then
    party.blocks = 0
  end
end
party.tokens = math.min(party.tokens, capacity_of(party.rate))
write_party(key, party)
add_to_hour(key, 'asked', number_of('asked'))
add_to_hour(key, 'verdicts', number_of('verdicts'))
add_to_hour(key, 'blocked', number_of('blocked'))
return string.format('%.0f', math.max(party.rest - now, 0))
