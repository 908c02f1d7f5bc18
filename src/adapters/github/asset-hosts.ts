/** Where an asset may be fetched from, and which URLs get the token. Rule: docs/behaviour/github.md, "Assets". */
import { EgressRefused } from '../../provider.ts'
import type { Repository } from './repository.ts'

const PUBLIC_API = 'https://api.github.com'
const PUBLIC_SITE = 'https://github.com'
/** They serve uploads and nothing else. */
const PUBLIC_UPLOADS = [
  'https://user-images.githubusercontent.com',
  'https://private-user-images.githubusercontent.com',
]

const UUID = '[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}'
/** One segment of a path: none that a server might take for several. */
const NAME = '(?:[^/%]|%(?!2f|5c)[0-9a-f]{2})+'
/** Uploads to whichever repository: their ids are random, so whoever names one has seen it. */
const UPLOAD = new RegExp(
  `^(?:/user-attachments/assets/${NAME}|/user-attachments/files/\\d+/${NAME}|/[\\w.-]+/[\\w.-]+/assets/\\d+/${UUID})$`,
  'i',
)
/** Uploads to an Enterprise server. */
const ENTERPRISE_UPLOAD = new RegExp(`^/storage/user/\\d+/files/${UUID}$`, 'i')
/** Files uploaded to one repository, before /user-attachments/. */
const REPOSITORY_FILE = new RegExp(`^/([\\w.-]+/[\\w.-]+)/files/\\d+/${NAME}$`, 'i')

/**
 * Parameters of a URL that bears its own permission: of S3, of Azure, of GitHub's image hosts. S3 refuses a request that has a
 * token beside it (https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-query-string-auth.html), and none is needed.
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

  /**
   * Whether the tracker keeps an upload there. Whatever else it serves, its API and its raw files above all, is what the token may
   * read and the author of an issue may not.
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
