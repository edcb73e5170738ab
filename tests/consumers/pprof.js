// Prints a profile of pprof, as pprof-format reads it: its kinds, and each sample with its frames from the outside in.
const { Profile } = require("pprof-format");
const { gunzipSync } = require("zlib");

const profile = Profile.decode(gunzipSync(require("fs").readFileSync(process.argv[2])));
const text = (index) => profile.stringTable.strings[Number(index)];
const functions = new Map(profile.function.map((one) => [String(one.id), text(one.name)]));
const places = new Map(profile.location.map((one) => [String(one.id), functions.get(String(one.line[0].functionId))]));
console.log(JSON.stringify({
  kinds: profile.sampleType.map((kind) => [text(kind.type), text(kind.unit)]),
  samples: profile.sample.map((sample) => ({
    stack: sample.locationId.map((id) => places.get(String(id))).reverse(),
    values: sample.value.map(Number),
    thread: sample.label.length ? text(sample.label[0].str) : null,
  })),
}));
