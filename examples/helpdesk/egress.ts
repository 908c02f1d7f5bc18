const LOOPBACK = ['localhost', '127.0.0.1', '[::1]']

/** Hosts that are reached though their address is not public: a Deskline on this very machine, and in development only. */
export function allowedHosts(baseUrl: string | undefined, { isDevelopment }: { isDevelopment: boolean }): string[] {
  if (baseUrl === undefined || !isDevelopment) return []
  const { hostname } = new URL(baseUrl)
  return LOOPBACK.includes(hostname) ? [hostname.replace(/^\[|\]$/g, '')] : []
}
