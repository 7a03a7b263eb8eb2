-- KEYS: what the names of entries begin with. ARGV: milliseconds they are kept; for each the number
-- of its text; tokens of 16 bytes, one behind the other, of which each ends the name of an entry;
-- then the texts.
local start, lasts, numbers, tokens = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
for row = 1, #numbers / 2 do
  local text = ARGV[3 + number_at(numbers, row)]
  redis.call('SET', name_at(start, tokens, row), text, 'PX', lasts)
end
