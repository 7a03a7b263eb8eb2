-- Prefix of every script of the cache. Texts that many entries share are sent once: a list of texts,
-- and for each entry the number of its text in two bytes; 0 for none.
local function name_at(prefix, tokens, row)
  return prefix .. string.sub(tokens, row * 16 - 15, row * 16)
end

local function number_at(numbers, row)
  local high, low = string.byte(numbers, row * 2 - 1, row * 2)
  return high * 256 + low
end

-- `text_of` returns the text of a row, or false.
local function packed(rows, text_of)
  local numbers, texts, known = {}, {}, {}
  for row = 1, rows do
    local text = text_of(row)
    local number = text and known[text] or 0
    if text and number == 0 then
      number = #texts + 1
      texts[number] = text
      known[text] = number
    end
    numbers[row] = string.char(math.floor(number / 256), number % 256)
  end
  return { table.concat(numbers), texts }
end
