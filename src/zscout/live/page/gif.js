// Writes an animated GIF: a palette, and each picture compressed by LZW.

const MIN_BITS = 8;
const MOST_CODES = 4096;

/** Collects bits, the lowest first, in blocks of at most 255 bytes. */
class Blocks {
  constructor() {
    this.bytes = [];
    this.block = [];
    this.buffer = this.bits = 0;
  }

  put(code, size) {
    this.buffer |= code << this.bits;
    this.bits += size;
    while (this.bits >= 8) {
      this.#byte(this.buffer & 255);
      this.buffer >>>= 8;
      this.bits -= 8;
    }
  }

  #byte(byte) {
    this.block.push(byte);
    if (this.block.length === 255) this.#flush();
  }

  #flush() {
    if (this.block.length) this.bytes.push(this.block.length, ...this.block);
    this.block = [];
  }

  end() {
    if (this.bits) this.#byte(this.buffer & 255);
    this.#flush();
    return [...this.bytes, 0];
  }
}

function compressed(pixels) {
  const blocks = new Blocks();
  const clear = 1 << MIN_BITS;
  let size = MIN_BITS + 1;
  let codes = new Map();
  let next = clear + 2;
  blocks.put(clear, size);
  let prefix = pixels[0];
  for (let i = 1; i < pixels.length; i++) {
    const key = (prefix << 8) | pixels[i];
    const known = codes.get(key);
    if (known !== undefined) {
      prefix = known;
      continue;
    }
    blocks.put(prefix, size);
    if (next < MOST_CODES) {
      codes.set(key, next);
      if (next === 1 << size) size += 1;
      next += 1;
    } else {
      blocks.put(clear, size);
      codes = new Map();
      next = clear + 2;
      size = MIN_BITS + 1;
    }
    prefix = pixels[i];
  }
  blocks.put(prefix, size);
  blocks.put(clear + 1, size);
  return blocks.end();
}

const short = (x) => [x & 255, x >> 8];

/**
 * @param {{width: number, height: number, palette: number[][], pictures: Uint8Array[], delay: number}} animation
 *   pictures hold an index into the palette for each pixel; delay is in hundredths of a second
 */
export function encodeGif({ width, height, palette, pictures, delay }) {
  const colours = Array.from({ length: 256 }, (_, i) => palette[i] ?? [0, 0, 0]).flat();
  const parts = [
    [..."GIF89a"].map((letter) => letter.charCodeAt(0)),
    [...short(width), ...short(height), 0xf7, 0, 0],
    colours,
    [0x21, 0xff, 11, ...[..."NETSCAPE2.0"].map((letter) => letter.charCodeAt(0)), 3, 1, 0, 0, 0], // for ever
  ];
  for (const pixels of pictures) {
    parts.push([0x21, 0xf9, 4, 0, ...short(delay), 0, 0], [0x2c, 0, 0, 0, 0, ...short(width), ...short(height), 0, MIN_BITS]);
    parts.push(compressed(pixels));
  }
  return new Blob([...parts, [0x3b]].map((part) => Uint8Array.from(part)), { type: "image/gif" });
}

/** The nearest colour of a palette for each pixel of an RGBA picture. */
export class Palette {
  constructor(colours) {
    this.colours = colours;
    this.known = new Map();
  }

  indices({ data }) {
    const found = new Uint8Array(data.length / 4);
    for (let i = 0; i < found.length; i++) found[i] = this.#nearest(data[4 * i], data[4 * i + 1], data[4 * i + 2]);
    return found;
  }

  #nearest(r, g, b) {
    const key = (r << 16) | (g << 8) | b;
    let best = this.known.get(key);
    if (best !== undefined) return best;
    let least = Infinity;
    this.colours.forEach(([x, y, z], i) => {
      const far = (x - r) ** 2 + (y - g) ** 2 + (z - b) ** 2;
      if (far < least) [least, best] = [far, i];
    });
    this.known.set(key, best);
    return best;
  }
}
