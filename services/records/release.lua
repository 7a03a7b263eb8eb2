-- KEYS: entries of a tenant's cache. ARGV: the owner's lease. Ends those that are still the owner's.
for _, key in ipairs(KEYS) do
  if redis.call('GET', key) == ARGV[1] then
    redis.call('UNLINK', key)
  end
end
