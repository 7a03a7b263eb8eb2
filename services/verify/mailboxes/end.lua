-- Joined behind party.lua: see memory.ts.
-- Ends a session: returns the recipients that were not asked, adapts the rate and counts replies.
-- The rate grows by a twentieth of the maximum for 100 replies, and falls by three tenths after a
-- reply that says it is too high, by half after a block. Near the ceiling, the rate of the last such
-- reply, it grows a twentieth as fast: so does CUBIC near the window of its last loss (RFC 9438).
-- Every further block in a row rests twice as long. What several sessions hear at the same time
-- counts once, and what those say that began before a rest does not end it.
-- KEYS: party. ARGV: the JSON of what begin.lua gets, and unused, asked, verdicts, blocked, ending,
-- restMs and maxRestMs.
local key = KEYS[1]
local party = read_party(key)
local ends_at = party.sessions[args.session]
redis.call('HDEL', key, 's:' .. args.session)
if ends_at then
  -- Recipients that are held do not fill the bucket, so what flowed in since is taken off them:
  -- else a minute might have them on top of a full bucket.
  local held = now - (ends_at - number_of('leaseMs'))
  local back = math.max(0, number_of('unused') - inflow(party.rate, held))
  party.tokens = math.min(capacity_of(party.rate), party.tokens + back)
end
local most, least = number_of('most'), number_of('least')
local is_resting = party.rest > now
local is_blocked = args.ending == 'blocked'
if is_blocked or args.ending == 'limited' then
  if not is_resting or (is_blocked and party.ending ~= 'blocked') then
    party.ceiling = party.rate
    party.rate = math.max(least, party.rate * (is_blocked and 0.5 or 0.7))
    if is_blocked then
      party.blocks = party.blocks + 1
    end
  end
  local rest = number_of('restMs')
  if is_blocked then
    rest = math.min(rest * 2 ^ (party.blocks - 1), number_of('maxRestMs'))
  end
  if now + rest > party.rest then
    party.rest = now + rest
    party.ending = args.ending
  end
elseif not is_resting then
  local is_near = math.abs(party.rate - party.ceiling) < party.ceiling / 10
  local growth = most * number_of('asked') / (is_near and 40000 or 2000)
  party.rate = math.min(most, party.rate + growth)
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
