-- Begins every script of the cache. An entry is a field of a hash: the first two bytes of a token
-- end the name of its hash, a bucket, and the other fourteen are the field. What entries hold is
-- the digest of a text, which is kept once for all of them and ends by itself; an entry whose text
-- has ended holds nothing. A key for each entry would take ten times the memory, and twice the time.
local DAY = 86400000
-- Entries that one script looks through for such as hold nothing; others wait for this meanwhile.
local most_swept = 2000

local function place_at(start, tokens, row)
  local at = row * 16
  return start .. string.sub(tokens, at - 15, at - 14), string.sub(tokens, at - 13, at)
end

-- What many entries have in common goes to and fro once: a list of texts, and for each entry the
-- number of its text in two bytes; 0 where it has none.
local function number_at(numbers, row)
  local high, low = string.byte(numbers, row * 2 - 1, row * 2)
  return high * 256 + low
end

local function digest_of(text)
  return (string.gsub(string.sub(redis.sha1hex(text), 1, 32), '%x%x', function(pair)
    return string.char(tonumber(pair, 16))
  end))
end

local function one_a_start()
  return setmetatable({}, { __index = function(all, start)
    all[start] = {}
    return all[start]
  end })
end

local texts_under, digests_under = one_a_start(), one_a_start()

-- What an entry holds, or false.
local function text_of(start, digest)
  local texts = texts_under[start]
  if digest and texts[digest] == nil then
    texts[digest] = redis.call('GET', start .. '#' .. digest)
  end
  return digest and texts[digest]
end

-- Keeps a text for so many milliseconds at least, and gives its digest.
local function keep_text(start, text, lasts)
  local digests = digests_under[start]
  if not digests[text] then
    local digest = digest_of(text)
    local name = start .. '#' .. digest
    if not redis.call('SET', name, text, 'PX', lasts, 'NX') then
      redis.call('PEXPIRE', name, lasts, 'GT')
    end
    texts_under[start][digest] = text
    digests[text] = digest
  end
  return digests[text]
end

-- Drops the entries of a bucket that hold nothing.
local function sweep(start, bucket)
  most_swept = most_swept - redis.call('HLEN', bucket)
  if most_swept < 0 then
    return
  end
  local all = redis.call('HGETALL', bucket)
  for at = 1, #all, 2 do
    if not text_of(start, all[at + 1]) then
      redis.call('HDEL', bucket, all[at])
    end
  end
end

-- A bucket outlives its entries, by up to a day: so it is prolonged, and swept, once a day.
local function outlive(start, bucket, lasts)
  local left = redis.call('PTTL', bucket)
  if left >= lasts then
    return
  end
  if left >= 0 then
    sweep(start, bucket)
  end
  redis.call('PEXPIRE', bucket, lasts + DAY)
end

-- `text_at` gives the text of a row, or false.
local function packed(rows, text_at)
  local numbers, texts, order = {}, {}, {}
  for row = 1, rows do
    local text = text_at(row)
    local number = text and order[text] or 0
    if text and number == 0 then
      number = #texts + 1
      texts[number] = text
      order[text] = number
    end
    numbers[row] = string.char(math.floor(number / 256), number % 256)
  end
  return { table.concat(numbers), texts }
end
