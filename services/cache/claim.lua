-- Joined behind common.lua: see cache.ts.
-- KEYS: the prefix of entry names, one per version of the tokens. ARGV: the TTL in milliseconds; the
-- number of the text of each contact; the number of texts, and the texts; for each version the
-- tokens of the same contacts, 16 bytes each, with which entry names end; then the texts of stale
-- records. Returns the value of the entry of each contact; nothing where it is now its own text.
local ttl, numbers, many, versions = ARGV[1], ARGV[2], tonumber(ARGV[3]), #KEYS
local stale = {}
for at = 4 + many + versions, #ARGV do
  stale[ARGV[at]] = true
end

local function text_at(row)
  return ARGV[3 + number_at(numbers, row)]
end

local function name_of(version, row)
  return name_at(KEYS[version], ARGV[3 + many + version], row)
end

local function claim_one(row)
  local name, text = name_of(1, row), text_at(row)
  local held = redis.call('SET', name, text, 'PX', ttl, 'NX', 'GET')
  if held and stale[held] then
    redis.call('SET', name, text, 'PX', ttl)
    held = false
  end
  return held
end

local function is_lease(text)
  return string.sub(text, 1, 6) == 'lease '
end

-- Stores the text under all versions, for jobs that know only one of them. A record has precedence
-- over a lease of another job.
local function claim_all(row)
  local held, own = false, text_at(row)
  for version = 1, versions do
    local text = redis.call('GET', name_of(version, row))
    local counts = text and text ~= own and not stale[text]
    if counts and (not held or is_lease(held)) then
      held = text
    end
  end
  for version = 1, versions do
    if not held then
      redis.call('SET', name_of(version, row), own, 'PX', ttl)
    end
  end
  return held
end

return packed(#numbers / 2, versions == 1 and claim_one or claim_all)
