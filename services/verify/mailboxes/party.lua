-- What all processes know of one egress at one owner of mail exchanges: a hash with `rate`
-- (recipients a minute), `ceiling` (the rate that was last too high, 0 if none was), the levels
-- `tokens` and `starts` at the time `at` (ms), `rest` (until when, ms) after which `ending`, `blocks`
-- in a row, `s:<session>` (end of its lease, ms), and counts by hour: `asked:<hour>`,
-- `verdicts:<hour>`, `blocked:<hour>`.

local args = cjson.decode(ARGV[1])
local HOUR_MS = 3600000
local KEPT_MS = 26 * HOUR_MS

local function number_of(name)
  return tonumber(args[name])
end

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local hour = math.floor(now / HOUR_MS)

-- A bucket of a sixth of the rate is filled with the rest of it: no minute has more than the rate.
local function capacity_of(rate)
  return math.max(1, rate / 6)
end

-- What flows into the bucket in so many milliseconds.
local function inflow(rate, elapsed)
  return elapsed * math.max(rate - capacity_of(rate), rate / 6) / 60000
end

local function filled(level, rate, elapsed)
  return math.min(capacity_of(rate), level + inflow(rate, elapsed))
end

-- Milliseconds until a bucket has a token.
local function wait_for(level, rate)
  return math.max(0, math.ceil((1 - level) / inflow(rate, 1)))
end

-- A clock that was set back moves the ends of rests and leases with it, so that they last as long
-- as they did at the last write. Else they would last as much longer as it was set back.
local function follow_clock(key, fields)
  local back = tonumber(fields.at or now) - now
  if back <= 0 then
    return
  end
  local changes = {}
  for name, value in pairs(fields) do
    if name == 'at' or name == 'rest' or string.sub(name, 1, 2) == 's:' then
      fields[name] = string.format('%.0f', tonumber(value) - back)
      changes[#changes + 1] = name
      changes[#changes + 1] = fields[name]
    end
  end
  redis.call('HSET', key, unpack(changes))
end

local function read_party(key)
  local stored = redis.call('HGETALL', key)
  local party = { sessions = {}, count = 0, earliest = now + HOUR_MS }
  local fields = {}
  for index = 1, #stored, 2 do
    fields[stored[index]] = stored[index + 1]
  end
  follow_clock(key, fields)
  for name, value in pairs(fields) do
    if string.sub(name, 1, 2) == 's:' then
      if tonumber(value) > now then
        party.count = party.count + 1
        party.sessions[string.sub(name, 3)] = tonumber(value)
        party.earliest = math.min(party.earliest, tonumber(value))
      else
        redis.call('HDEL', key, name)
      end
    elseif string.match(name, ':(%d+)$') and tonumber(string.match(name, ':(%d+)$')) < hour - 1 then
      redis.call('HDEL', key, name)
    end
  end
  local most, least = number_of('most'), number_of('least')
  party.rate = math.max(least, math.min(most, tonumber(fields.rate or args.first)))
  party.ceiling = tonumber(fields.ceiling or 0)
  local elapsed = now - tonumber(fields.at or now)
  local starts_a_minute = number_of('startsAMinute')
  party.tokens = filled(
    tonumber(fields.tokens or capacity_of(party.rate)), party.rate, elapsed)
  party.starts = filled(
    tonumber(fields.starts or capacity_of(starts_a_minute)), starts_a_minute, elapsed)
  party.rest = tonumber(fields.rest or 0)
  party.blocks = tonumber(fields.blocks or 0)
  party.ending = fields.ending or ''
  return party
end

local function write_party(key, party)
  redis.call('HSET', key,
    'rate', string.format('%.6g', party.rate), 'ceiling', string.format('%.6g', party.ceiling),
    'tokens', string.format('%.17g', party.tokens),
    'starts', string.format('%.17g', party.starts), 'at', string.format('%.0f', now),
    'rest', string.format('%.0f', party.rest), 'blocks', string.format('%.0f', party.blocks),
    'ending', party.ending)
  redis.call('PEXPIRE', key, KEPT_MS)
end

-- Takes up to so many whole tokens.
local function take(party, wanted)
  local taken = math.max(0, math.min(wanted, math.floor(party.tokens)))
  party.tokens = party.tokens - taken
  return taken
end

local function add_to_hour(key, name, count)
  if count > 0 then
    redis.call('HINCRBY', key, name .. ':' .. string.format('%.0f', hour), count)
  end
end
