/**
 * The line that refuses an older Node, or `undefined` when this one will do. Every entry point asks it first:
 * an older Node would stop at the first type annotation with a syntax error that helps nobody.
 */
export function refuseNodeVersion(version: string): string | undefined {
  const major = Number(version.replace(/^v/, "").split(".")[0]);
  return major >= 24
    ? undefined
    : `belfry needs Node 24 or newer, and this is ${version}: run it through npm (\`npm run …\`), or with node_modules/.bin/node`;
}
