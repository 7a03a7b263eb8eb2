-- The guard before every script that moves money, or on whose reply a message is dropped. Redis may
-- have lost movements by a restart. A wallet is locked until ledger has compared it with the
-- journal and written the run id of the server to it.

-- The first key of every such script, which has one wallet.
local WALLET = KEYS[1]

-- The run id and the time of the server, which is the only clock of money. Only the server knows
-- both: a proxy may keep connections open over a restart.
local server

local function this_server()
  if not server then
    local info = redis.call('INFO', 'server')
    local micros = tonumber(string.match(info, 'server_time_usec:(%d+)'))
    server = { run = string.match(info, 'run_id:(%x+)'), ms = math.floor(micros / 1000) }
  end
  return server
end

local function run_id()
  return this_server().run
end

local function now_ms()
  return this_server().ms
end

-- A script reads its wallet once, as scripts run one at a time.
local wallet

local function read_wallet()
  if not wallet then
    local found = redis.call('HMGET', WALLET, 'run', 'frozen', 'available', 'reserved', 'charged',
      'funded', 'seq', 'slots')
    wallet = {
      run = found[1],
      frozen = found[2],
      available = found[3] or '0',
      reserved = found[4] or '0',
      charged = found[5] or '0',
      funded = found[6] or '0',
      seq = found[7] or '0',
      slots = found[8] or '0',
    }
  end
  return wallet
end

-- The error reply of a locked wallet, or nil; why the wallet is frozen, or nil; and the run id.
local function read_guard()
  local state, run = read_wallet(), run_id()
  if state.run ~= run then
    local reply = 'RECOVERING the wallet is locked until ledger has compared it with the journal'
    return { locked = redis.error_reply(reply) }
  end
  return { frozen = state.frozen, run = run }
end

-- The error reply to a movement of a locked or frozen wallet, or nil.
local function locked_or_frozen()
  local guard = read_guard()
  return guard.locked or guard.frozen and redis.error_reply('FROZEN ' .. guard.frozen)
end
