-- KEYS: what the names of buckets begin with, one a version of the tokens. ARGV: milliseconds what
-- is put there lasts; for each contact the number of its text, then how many texts, and these; for
-- each version the tokens of the same contacts, 16 bytes each, one behind the other; then texts
-- that answer nobody any more. Gives for each contact what its entry holds; nothing where that is
-- its own text now.
local lasts, numbers = tonumber(ARGV[1]), ARGV[2]
local many, versions = tonumber(ARGV[3]), #KEYS
local useless = {}
for at = 4 + many + versions, #ARGV do
  useless[ARGV[at]] = true
end

local function own_at(row)
  return ARGV[3 + number_at(numbers, row)]
end

local function entry_at(version, row)
  return place_at(KEYS[version], ARGV[3 + many + version], row)
end

local function claim_one(row)
  local start = KEYS[1]
  local bucket, field = entry_at(1, row)
  local digest = keep_text(start, own_at(row), lasts)
  if redis.call('HSETNX', bucket, field, digest) == 0 then
    local held = text_of(start, redis.call('HGET', bucket, field))
    if held and not useless[held] then
      return held
    end
    redis.call('HSET', bucket, field, digest)
  end
  outlive(start, bucket, lasts)
  return false
end

local function is_lease(text)
  return string.sub(text, 1, 6) == 'lease '
end

-- Whoever knows only one of the versions finds the text there, so it stands under all of them. A
-- record says more than another's lease.
local function claim_all(row)
  local held, own = false, own_at(row)
  for version = 1, versions do
    local text = text_of(KEYS[version], redis.call('HGET', entry_at(version, row)))
    local counts = text and text ~= own and not useless[text]
    if counts and (not held or is_lease(held)) then
      held = text
    end
  end
  for version = 1, versions do
    if not held then
      local bucket, field = entry_at(version, row)
      redis.call('HSET', bucket, field, keep_text(KEYS[version], own, lasts))
      outlive(KEYS[version], bucket, lasts)
    end
  end
  return held
end

return packed(#numbers / 2, versions == 1 and claim_one or claim_all)
