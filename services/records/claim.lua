-- KEYS: what the names of entries begin with, one a version of the tokens. ARGV: the owner's lease,
-- milliseconds it lasts; for each version the tokens of the same contacts, 16 bytes each, one behind
-- the other, of which each ends the name of an entry; then texts that answer nobody any more. Gives
-- for each contact what it holds; nothing where it holds the lease now.
local lease, lasts, versions = ARGV[1], ARGV[2], #KEYS
local useless = {}
for at = 3 + versions, #ARGV do
  useless[ARGV[at]] = true
end

local function name_of(version, at)
  return KEYS[version] .. string.sub(ARGV[2 + version], at, at + 15)
end

local function claim_one(at)
  local name = name_of(1, at)
  local held = redis.call('SET', name, lease, 'PX', lasts, 'NX', 'GET')
  if held and useless[held] then
    redis.call('SET', name, lease, 'PX', lasts)
    held = false
  end
  return held
end

local function is_lease(text)
  return string.sub(text, 1, 6) == 'lease '
end

-- Whoever knows only one of the versions finds the lease there, so it stands under all of them. A
-- record says more than another's lease.
local function claim_all(at)
  local held = false
  for version = 1, versions do
    local text = redis.call('GET', name_of(version, at))
    local counts = text and text ~= lease and not useless[text]
    if counts and (not held or is_lease(held)) then
      held = text
    end
  end
  for version = 1, versions do
    if not held then
      redis.call('SET', name_of(version, at), lease, 'PX', lasts)
    end
  end
  return held
end

local answer = {}
for at = 1, #ARGV[3], 16 do
  answer[#answer + 1] = versions == 1 and claim_one(at) or versions > 1 and claim_all(at)
end
return answer
