import { isIP } from 'node:net'
import Type from 'typebox'

/** The address of a resolver in a configuration: `ip`, `ip:port` or `[ip]:port`. */
export const serverAddress = Type.Refine(
  Type.String(), isServerAddress, () => 'must be an IP address, with or without port')

/** Whether a text is an address of a resolver: an IP address, with brackets for IPv6 and a port. */
export function isServerAddress (text: string): boolean {
  const [, bracketed, plain, port] = /^(?:\[([^\]]+)\]|([^:]+))(?::(\d{1,5}))?$/.exec(text) ?? []
  if (port !== undefined && (Number(port) < 1 || Number(port) > 65_535)) return false
  return isIP(text) !== 0 || isIP(bracketed ?? '') === 6 || isIP(plain ?? '') === 4
}
