-- In place of Redis TIME: a clock that a test sets, forward and back, in microseconds.
local function now_micros()
  return tonumber(redis.call('GET', 'clock'))
end
