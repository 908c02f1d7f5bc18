/** Where an asset may be fetched from, and which URLs get the token. Rule: docs/behaviour/github.md, "Assets". */
import { EgressRefused } from '../../provider.ts'
import type { Repository } from './repository.ts'

const PUBLIC_API = 'https://api.github.com'
const PUBLIC_SITE = 'https://github.com'
/** Hosts that serve uploads only. */
const PUBLIC_UPLOADS = [
  'https://user-images.githubusercontent.com',
  'https://private-user-images.githubusercontent.com',
]

const UUID = '[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}'
/** One segment of a path, without encoded slashes that a server might decode. */
const NAME = '(?:[^/%]|%(?!2f|5c)[0-9a-f]{2})+'
/** Uploads to any repository: their ids are random, so a caller that names one has seen it. */
const UPLOAD = new RegExp(
  `^(?:/user-attachments/assets/${NAME}|/user-attachments/files/\\d+/${NAME}|/[\\w.-]+/[\\w.-]+/assets/\\d+/${UUID})$`,
  'i',
)
/** Uploads to an Enterprise server. */
const ENTERPRISE_UPLOAD = new RegExp(`^/storage/user/\\d+/files/${UUID}$`, 'i')
/** Files uploaded to one repository, before /user-attachments/. */
const REPOSITORY_FILE = new RegExp(`^/([\\w.-]+/[\\w.-]+)/files/\\d+/${NAME}$`, 'i')

/**
 * Parameters of a signed URL: of S3, of Azure, of GitHub's image hosts. It needs no token, and S3 refuses a request with one
 * (https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-query-string-auth.html).
 */
const SIGNED_BY = new Set(['x-amz-signature', 'signature', 'sig', 'jwt', 'token'])

export class AssetHosts {
  /** Null: github.com itself. */
  readonly #enterprise: string | null
  /** In lower case: GitHub does not tell cases apart. */
  readonly #repository: string

  constructor({ origin, owner, repo }: Pick<Repository, 'origin' | 'owner' | 'repo'>) {
    this.#enterprise = origin === PUBLIC_API ? null : origin
    this.#repository = `${owner}/${repo}`.toLowerCase()
  }

  /** @throws EgressRefused unless it is an https URL on the default port without user info, or of the Enterprise API's own origin */
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

  /**
   * Whether the URL is an upload of the tracker. The token may also read its API and its raw files, but the author of an issue may
   * not, and writes the URL.
   */
  isUpload({ origin, pathname }: URL): boolean {
    if (this.#enterprise === null && PUBLIC_UPLOADS.includes(origin)) return true
    if (origin !== (this.#enterprise ?? PUBLIC_SITE)) return false
    if (UPLOAD.test(pathname) || (this.#enterprise !== null && ENTERPRISE_UPLOAD.test(pathname))) return true
    return REPOSITORY_FILE.exec(pathname)?.[1]?.toLowerCase() === this.#repository
  }

  takesToken(url: URL): boolean {
    return this.isUpload(url) && ![...url.searchParams.keys()].some((name) => SIGNED_BY.has(name.toLowerCase()))
  }
}
