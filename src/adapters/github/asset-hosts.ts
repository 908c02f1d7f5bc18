/** Where an asset may be fetched from, and which hosts get the token. Rule: docs/behaviour/github.md, "Assets". */
import { EgressRefused } from '../../provider.ts'

/** Where github.com keeps what its users upload, and serves it from. */
const TRACKER_DOMAINS = ['github.com', 'githubusercontent.com']
const PUBLIC_API = 'https://api.github.com'
/**
 * Parameters of a URL that bears its own permission: of S3, of Azure, of GitHub's image hosts. S3 refuses a request that has a
 * token beside it (https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-query-string-auth.html), and none is needed.
 */
const SIGNED_BY = new Set(['x-amz-signature', 'signature', 'sig', 'jwt', 'token'])

export class AssetHosts {
  /** Null: github.com itself. */
  readonly #enterprise: string | null

  /** @param origin of the integration's API */
  constructor(origin: string) {
    this.#enterprise = origin === PUBLIC_API ? null : origin
  }

  /** @throws EgressRefused for what is no https URL on the default port, or holds user info; the API's own origin is as it is */
  check(url: URL): void {
    if (url.username !== '' || url.password !== '') throw new EgressRefused(url.hostname, 'its URL holds user info')
    if (url.origin === this.#enterprise) return
    if (url.protocol !== 'https:') {
      throw new EgressRefused(url.hostname, `an asset is fetched from https URLs only, not ${url.protocol}`)
    }
    if (url.port !== '') {
      throw new EgressRefused(url.hostname, `an asset is fetched from port 443 only, not ${url.port}`)
    }
  }

  /** Whether the host belongs to the tracker: then it may be shown the token, and no other may. */
  isTrackers(url: URL): boolean {
    if (this.#enterprise !== null) return url.origin === this.#enterprise
    if (url.protocol !== 'https:') return false
    return TRACKER_DOMAINS.some((domain) => url.hostname === domain || url.hostname.endsWith(`.${domain}`))
  }

  takesToken(url: URL): boolean {
    return this.isTrackers(url) && ![...url.searchParams.keys()].some((name) => SIGNED_BY.has(name.toLowerCase()))
  }
}
