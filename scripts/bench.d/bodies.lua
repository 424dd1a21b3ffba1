-- Posts the lines of a file, each once, shared out among wrk's threads.
-- Environment: BODIES, AUTHORITY (the Host), THREADS, PAUSE_MS (between the requests of one connection), REPEAT.

local number = 0
function setup(thread)
  thread:set("share", number)
  number = number + 1
end

local lines, threads, pause, path

function init(args)
  path = args[1]
  threads = tonumber(os.getenv("THREADS"))
  pause = tonumber(os.getenv("PAUSE_MS") or "0")
  lines = io.lines(os.getenv("BODIES"))
  for _ = 1, share do lines() end
  wrk.method = "POST"
  wrk.headers["Content-Type"] = "application/json"
end

if tonumber(os.getenv("PAUSE_MS") or "0") > 0 then
  -- Between nothing and twice the pause, so that the connections do not fall into step.
  function delay() return math.random(0, 2 * pause) end
end

-- A file that has ended may not be read again, and each connection asks once more before the thread stops.
local hasEnded = false
local function nextLine()
  if hasEnded then return nil end
  local line = lines()
  hasEnded = line == nil
  return line
end

local last = nil
function request()
  local line = nextLine()
  if line == nil then
    -- All are posted; what is said from here on is counted as a repetition.
    wrk.thread:stop()
    return wrk.format(nil, nil, nil, last)
  end
  for _ = 1, threads - 1 do nextLine() end
  last = line
  return wrk.format(nil, nil, nil, line)
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    'RESULT {"requests":%d,"seconds":%.3f,"p50":%.3f,"p90":%.3f,"p99":%.3f,"max":%.3f,"mean":%.3f,"refused":%d,"broken":%d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(90) / 1e3,
    latency:percentile(99) / 1e3, latency.max / 1e3, latency.mean / 1e3, errors.status,
    errors.connect + errors.read + errors.write + errors.timeout))
end
