import { createHash } from 'node:crypto'

/** What the authorization request says of the verifier that the exchange will show (RFC 7636, 4.2, S256). */
export function codeChallengeOf(codeVerifier: string): string {
  return createHash('sha256').update(codeVerifier).digest('base64url')
}
