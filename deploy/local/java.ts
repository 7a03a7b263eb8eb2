/**
 * Options of every Java part: a small heap, the quick compiler only and the collector with the
 * least overhead, because a part starts often and works little; out of memory ends it, since a
 * restarted part is better than one that limps.
 */
export function javaArgs (heapMegabytes: number): readonly string[] {
  return [
    `-Xmx${heapMegabytes}m`, '-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC',
    '-XX:+ExitOnOutOfMemoryError', '-Djava.awt.headless=true',
  ]
}
