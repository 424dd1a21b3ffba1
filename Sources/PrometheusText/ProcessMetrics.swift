import CoreMetrics
import Foundation
import Platform
import Synchronization

extension PrometheusRegistry {
  /// Adds the metrics of this process under the names of Prometheus's client libraries. Each scrape reads them from
  /// `/proc/self` (proc(5)). A system without it has only the CPU time and the limit of descriptors.
  package func watchProcess() {
    let processorTime = "process_cpu_seconds_total"
    declare(CounterSeries.self, processorTime, "Processor time that the process has used, in seconds.")
    let usedTime = FloatingPointCounter(label: processorTime, factory: self)
    let countedTime = Mutex(0.0)
    let residentMemory = gauge("process_resident_memory_bytes", "Memory that the process has in RAM.")
    let virtualMemory = gauge("process_virtual_memory_bytes", "Address space that the process has.")
    let openFiles = gauge("process_open_fds", "Open file descriptors.")
    let maximumFiles = gauge("process_max_fds", "The limit of open file descriptors.")
    let threads = gauge("process_threads", "Threads.")
    let startTime = gauge("process_start_time_seconds", "When the process started, in seconds since 1970.")
    beforeRendering {
      usedTime.increment(
        by: countedTime.withLock { counted in
          let used = max(processorSeconds(), counted)
          defer { counted = used }
          return used - counted
        })
      openFiles.set(countOpenFiles())
      var limit = rlimit()
      if getrlimit(Platform.openFiles, &limit) == 0 { maximumFiles.set(Double(limit.rlim_cur)) }
      // The second field is a name in parentheses, which may have spaces and parentheses.
      guard let stat = contents(of: "/proc/self/stat"), let name = stat.lastIndex(of: UInt8(ascii: ")"))
      else { return }
      let fields = stat[(name + 1)...].split(separator: UInt8(ascii: " ")).map(number)
      guard fields.count > 21 else { return }
      // Numbered from 3 on in proc_pid_stat(5).
      threads.set(fields[20 - 3])
      virtualMemory.set(fields[23 - 3])
      residentMemory.set(fields[24 - 3] * Double(sysconf(Int32(_SC_PAGESIZE))))
      if let boot = bootTime() { startTime.set(boot + fields[22 - 3] / Double(sysconf(Int32(_SC_CLK_TCK)))) }
    }
  }
}

/// 0 if it is not known.
private func processorSeconds() -> Double {
  var usage = rusage()
  guard getrusage(Platform.ownUsage, &usage) == 0 else { return 0 }
  return seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

private func seconds(_ time: timeval) -> Double { Double(time.tv_sec) + Double(time.tv_usec) / 1_000_000 }

/// The number of open descriptors, without the one of this function.
private func countOpenFiles() -> Int {
  guard let folder = opendir("/proc/self/fd") else { return 0 }
  defer { closedir(folder) }
  var count = -1
  while let entry = readdir(folder) {
    if entry.pointee.d_name.0 != CChar(bitPattern: UInt8(ascii: ".")) { count += 1 }
  }
  return count
}

private func bootTime() -> Double? {
  guard let stat = contents(of: "/proc/stat") else { return nil }
  let line = stat.split(separator: UInt8(ascii: "\n")).first { $0.starts(with: "btime ".utf8) }
  return line.map { number($0.dropFirst(6)) }
}

private func contents(of path: String) -> [UInt8]? {
  let file = open(path, O_RDONLY | O_CLOEXEC)
  guard file >= 0 else { return nil }
  defer { close(file) }
  var bytes: [UInt8] = []
  var buffer = [UInt8](repeating: 0, count: 16_384)
  while true {
    let count = read(file, &buffer, buffer.count)
    guard count > 0 else { return bytes }
    bytes += buffer[..<count]
  }
}

/// The number in the leading digits; 0 if it exceeds 64 bits.
private func number(_ bytes: ArraySlice<UInt8>) -> Double {
  var value: UInt64 = 0
  for byte in bytes {
    guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) else { break }
    let (tenfold, overflow) = value.multipliedReportingOverflow(by: 10)
    guard !overflow else { return 0 }
    value = tenfold &+ UInt64(byte - UInt8(ascii: "0"))
  }
  return Double(value)
}
