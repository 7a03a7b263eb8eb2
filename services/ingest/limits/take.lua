-- KEYS: buckets. ARGV: capacity and seconds of each.
local buckets = buckets_from(1)
local taken = take_one(KEYS[1], now_micros(), buckets)
return answer(taken and 'admitted' or 'throttled', buckets)
