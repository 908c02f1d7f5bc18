/** Whose answers are stored as a note of their size. Rule: docs/behaviour/requests.md, "The row". */

/**
 * @param pattern `[METHOD:]path`; `*` stands for any characters within one segment. A query of the endpoint is not looked at,
 * nor is a slash at either end
 */
export function isUnlogged(pattern: string, method: string, endpoint: string): boolean {
  const [, wantedMethod, path = ''] = /^(?:([A-Za-z]+):(?!\/\/))?(.*)$/s.exec(pattern) ?? []
  if (wantedMethod !== undefined && wantedMethod.toUpperCase() !== method.toUpperCase()) return false
  const pieces = trimmed(path).split('*')
  return new RegExp(`^${pieces.map((piece) => piece.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('[^/]*')}$`).test(
    trimmed(endpoint.split('?')[0] ?? ''),
  )
}

function trimmed(path: string): string {
  return path.replace(/^\/+|\/+$/g, '')
}
