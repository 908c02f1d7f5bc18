/** What counts as the address of a web server, read as strictly as the most careless reader of it would need. */

export function isHttpUrl(text: string): boolean {
  return /^https?:\/\//i.test(text) && !hasUnsafeCharacters(text) && URL.canParse(text)
}

export function hasUserInfo(url: string): boolean {
  const { username, password } = new URL(url)
  return username !== '' || password !== ''
}

/** Browsers drop tabs and line ends and read `\` as `/` (WHATWG URL): `/<tab>/host` would become `//host`. */
export function hasUnsafeCharacters(text: string): boolean {
  return /[\\\s\p{Cc}]/u.test(text)
}
