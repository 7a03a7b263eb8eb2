-- KEYS: entries of a tenant's cache, those of one contact under each version of its token in a row.
-- ARGV: the owner's lease, milliseconds it lasts, the number of versions, then texts that answer
-- nobody any more. Gives for each contact what it holds; nothing where it holds the lease now.
local lease, lasts, versions = ARGV[1], ARGV[2], tonumber(ARGV[3])
local useless = {}
for at = 4, #ARGV do
  useless[ARGV[at]] = true
end

local function claim_one(key)
  local held = redis.call('SET', key, lease, 'PX', lasts, 'NX', 'GET')
  if held and useless[held] then
    redis.call('SET', key, lease, 'PX', lasts)
    held = false
  end
  return held
end

local function is_lease(text)
  return string.sub(text, 1, 6) == 'lease '
end

-- Whoever knows only one of the versions finds the lease there, so it stands under all of them. A
-- record says more than another's lease.
local function claim_all(first)
  local held = false
  for at = first, first + versions - 1 do
    local text = redis.call('GET', KEYS[at])
    local counts = text and text ~= lease and not useless[text]
    if counts and (not held or is_lease(held)) then
      held = text
    end
  end
  for at = first, first + versions - 1 do
    if not held then
      redis.call('SET', KEYS[at], lease, 'PX', lasts)
    end
  end
  return held
end

local answer = {}
for at = 1, #KEYS, versions do
  answer[#answer + 1] = versions == 1 and claim_one(KEYS[at]) or versions > 1 and claim_all(at)
end
return answer
