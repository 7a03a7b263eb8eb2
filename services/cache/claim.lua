-- KEYS: what the names of entries begin with, one a version of the tokens. ARGV: milliseconds what
-- is put there lasts; for each contact the number of its text, then how many texts, and these; for
-- each version the tokens of the same contacts, 16 bytes each, one behind the other, of which each
-- ends the name of an entry; then texts that answer nobody any more. Gives for each contact what
-- its entry holds; nothing where that is its own text now.
local lasts, numbers, many, versions = ARGV[1], ARGV[2], tonumber(ARGV[3]), #KEYS
local useless = {}
for at = 4 + many + versions, #ARGV do
  useless[ARGV[at]] = true
end

local function text_at(row)
  return ARGV[3 + number_at(numbers, row)]
end

local function name_of(version, row)
  return name_at(KEYS[version], ARGV[3 + many + version], row)
end

local function claim_one(row)
  local name, text = name_of(1, row), text_at(row)
  local held = redis.call('SET', name, text, 'PX', lasts, 'NX', 'GET')
  if held and useless[held] then
    redis.call('SET', name, text, 'PX', lasts)
    held = false
  end
  return held
end

local function is_lease(text)
  return string.sub(text, 1, 6) == 'lease '
end

-- Whoever knows only one of the versions finds the text there, so it stands under all of them. A
-- record says more than another's lease.
local function claim_all(row)
  local held, own = false, text_at(row)
  for version = 1, versions do
    local text = redis.call('GET', name_of(version, row))
    local counts = text and text ~= own and not useless[text]
    if counts and (not held or is_lease(held)) then
      held = text
    end
  end
  for version = 1, versions do
    if not held then
      redis.call('SET', name_of(version, row), own, 'PX', lasts)
    end
  end
  return held
end

return packed(#numbers / 2, versions == 1 and claim_one or claim_all)
