-- Posts each line of a file once; each of wrk's threads has a part of the file. It runs on the measured machine, so it
-- does little work: the head of a request is made once, and each thread reads only its part.
-- Environment: BODIES, THREADS, PAUSE_MS (between the requests of one connection).

local number = 0
function setup(thread)
  thread:set("share", number)
  number = number + 1
end

local file, left, head, pause

function init(args)
  local threads = tonumber(os.getenv("THREADS"))
  pause = tonumber(os.getenv("PAUSE_MS") or "0")
  file = assert(io.open(os.getenv("BODIES"), "rb"))
  local size = file:seek("end")
  local first, last = math.floor(size * share / threads), math.floor(size * (share + 1) / threads)
  -- A line belongs to the part that it begins in; the byte before tells whether one begins here.
  file:seek("set", math.max(first - 1, 0))
  if first > 0 then file:read("*l") end
  left = last - file:seek()
  head = string.format(
    "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: ", wrk.path,
    wrk.headers["Host"])
end

if tonumber(os.getenv("PAUSE_MS") or "0") > 0 then
  -- Up to twice the pause at random, so that the connections do not synchronize.
  function delay() return math.random(0, 2 * pause) end
end

local last = nil
function request()
  local line = left > 0 and file:read("*l") or nil
  if line == nil then
    -- All are posted. Each connection asks once more before the thread stops, and gets the last line again.
    left = 0
    wrk.thread:stop()
    line = last or ""
  else
    left = left - #line - 1
    last = line
  end
  return head .. #line .. "\r\n\r\n" .. line
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    'RESULT {"requests":%d,"seconds":%.3f,"p50":%.3f,"p90":%.3f,"p99":%.3f,"max":%.3f,"mean":%.3f,"refused":%d,"broken":%d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(90) / 1e3,
    latency:percentile(99) / 1e3, latency.max / 1e3, latency.mean / 1e3, errors.status,
    errors.connect + errors.read + errors.write + errors.timeout))
end
